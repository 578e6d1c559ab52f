"""A model that takes all memory that its process may have, down to the last integer, as a library may that it uses."""
