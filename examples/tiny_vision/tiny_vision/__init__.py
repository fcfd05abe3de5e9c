"""Small image classifiers, three of which `torch.compile` cannot keep in one graph."""
