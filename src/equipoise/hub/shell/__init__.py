"""Where the hub meets the event loop and the kernel."""
