"""What models are made of: linear layers, recurrent cells, attention, attention over images."""
