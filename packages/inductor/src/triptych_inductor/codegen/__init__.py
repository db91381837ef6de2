"""Code generators: from `Kernel` records to source text, one subpackage for each kind of device."""
