"""The file contract of all durable code, and its implementation on the operating system.

`Disk` is one flat directory of append-only files and of files with a fixed size; `write_atomically` builds small files
that are either old or new on top of it. `DirectoryDisk` is a directory of the operating system. The simulator has
another implementation, which tears, fills up, lies and rots.
"""

from equipoise.disk.contract import Disk, DiskRoom, File, FixedFile, check_name
from equipoise.disk.directory import DirectoryDisk, write_atomically

__all__ = ["DirectoryDisk", "Disk", "DiskRoom", "File", "FixedFile", "check_name", "write_atomically"]
