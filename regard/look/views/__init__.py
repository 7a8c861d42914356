"""Views of the look record: terminal, pictures, animation, page."""
