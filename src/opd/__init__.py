"""On-policy distillation of math reasoners, with the discipline of a formal experiment around it."""

__version__ = "0.1.0"
