"""Serving: translations and looks over HTTP, batched, bounded, and compatible with LibreTranslate.

request ──► guard (host, size, headers) ──► libre.py / own.py ──► sentences ──► queue ──► Translator ──► answer
                                       image_routes.py ──► image_models ──► queue ──► Captioner, Classifier

`settings.py` needs neither torch nor FastAPI, so that `regard serve --help` is instant.
"""
