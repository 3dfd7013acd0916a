"""The codec by itself: what goes in, what comes out, whatever the pieces."""
