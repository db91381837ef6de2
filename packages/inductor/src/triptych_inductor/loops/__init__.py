"""Loop programs: the small language between lowering and code generation."""
