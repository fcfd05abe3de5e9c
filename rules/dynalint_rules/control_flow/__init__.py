"""DYN1xx: control flow that depends on the data of a tensor."""
