"""The file formats that users write, as frozen pydantic models: an error names the field with the mistake."""
