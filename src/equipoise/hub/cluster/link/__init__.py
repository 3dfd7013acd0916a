"""Links between hubs: frames, their numbering and resending, connections, the handshake."""
