"""Makes and deletes the ResourceClaimTemplates that translated pods name: `dra.engine.translation` decides.

In mode replace this controller generates the claims from these templates, in mode alongside kube-controller-manager
does. Both retry while a template is missing, so a template may follow its first pod.
"""
