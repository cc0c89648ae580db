"""How each kind of object is created, changed and dropped. Pure."""
