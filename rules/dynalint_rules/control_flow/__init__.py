"""DYN1xx: control flow that depends on the values in a tensor."""
