"""The file contract of all durable code, and its implementation on the operating system.

`Disk` is one flat directory of append-only files and of files of a fixed size. `write_atomically` replaces a small file
so that after a crash it has its old or its new content. `DirectoryDisk` implements `Disk` on a directory of the
operating system. The simulator has an implementation with torn writes, full disks, lying syncs and corruption.
"""

from equipoise.disk.contract import Disk, DiskRoom, File, FixedFile, check_name
from equipoise.disk.directory import DirectoryDisk, write_atomically

__all__ = ["DirectoryDisk", "Disk", "DiskRoom", "File", "FixedFile", "check_name", "write_atomically"]
