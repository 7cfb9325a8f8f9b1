"""What humans write, as frozen pydantic models: mistakes are answered with the name of the field."""
