"""One distillation as a page: the report that `opd demo` and the like end with."""
