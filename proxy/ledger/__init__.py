"""Pure: what is remembered. Records and the protocol that every store fulfils."""
