"""Serves a live, read-only page about claims, devices and Reservations, on a user's machine and in a cluster.

``kubectl dra ui`` serves the page to one user, who sees what the user's own kubeconfig may read. ``dra-reserve page``
serves it to the users of a cluster: it reads the cluster once, with an account of its own. A user signs in with a token
of the cluster (`token_reviews`); SubjectAccessReviews say what the user may list and watch (`user_rights`). For each
different set of rights there is one feed of rows (`scoped_feeds`), made of nothing but objects that the set covers, so
no row can contain the name of another object.
"""
