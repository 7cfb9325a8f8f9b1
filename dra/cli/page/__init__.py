"""The page in a cluster, ``dra-reserve page``: each user sees what the user's own rights allow.

The server reads the cluster once, with an account of its own. A user signs in with a token of the cluster
(`token_reviews`); SubjectAccessReviews say what the user may list and watch (`user_rights`). For each different set of
rights there is one feed of rows (`scoped_feeds`), made of nothing but objects that the set covers, so no row can
contain the name of another object.
"""
