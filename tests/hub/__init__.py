"""The hub: its rules without sockets, its limits over real ones, its process under signals."""
