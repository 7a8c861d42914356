"""Images: reading them strictly, sets of them with labels or captions."""
