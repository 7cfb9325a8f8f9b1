"""Stock against ours: the same script played before both, and what is left of it compared.

What the stock resourceclaim controller does is its users' contract, written down nowhere but in its source. So nobody
here says what is right: a seed makes a script (``scripts``) of what users, schedulers and kubelets do (``operations``);
it is played (``play``) in a namespace of its own on two servers, each with one of the controllers; after each round
both must come to rest (``mirror``, ``settling``) and look alike (``observation``). Where stock never comes to rest, or
does what is known to be a mistake of its own, the script ends there and is counted (``deviations``).

A pod that is deleted by force may run for a while, and ours keeps its claims for more than a minute, where stock frees
them at once. That is waited for, since both must be equal then; so only one running pod of a script vanishes.

Neither scheduler nor kubelet runs on these servers. The scripts play them, so that the controllers are the only ones
whose timing is not ours.
"""
