"""DYN8xx: code that Dynamo compiles again for other inputs, other values or other layers."""
