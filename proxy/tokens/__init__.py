"""Pure: counting. Usage as reported, estimates, the unified formula, what is learned, windows."""
