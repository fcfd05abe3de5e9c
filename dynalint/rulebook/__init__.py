"""The codes and their documentation: rule pages, examples, graph breaks and releases of torch."""
