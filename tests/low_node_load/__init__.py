"""LowNodeLoad compared with koord-descheduler's own: generated clusters, both answers, and why some differ.

``make low-node-load`` builds the plugin of Koordinator 1.6 (Go), asks both, and counts. The answers to the clusters of
the tests are recorded in ``answers.json``, so that the tests need no Go.
"""
