"""``kubectl dra migrations``, and what commands about migrations share: jobs, their texts, and following them."""
