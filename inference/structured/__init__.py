"""Structured output, as the native engine follows it and routers judge it beforehand: JSON Schemas for llguidance."""
