"""Looking at attention: the arithmetic, the terminal, pictures and pages."""
