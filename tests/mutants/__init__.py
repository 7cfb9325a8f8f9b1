"""Mutants: the engine and the controller's shell with one random line changed, to be found by the tests.

A mutant that no test finds is either equivalent (it does the same), or a behaviour that nobody has tested. The known
equivalent ones are in ``equivalent``, with the reason. `operators` makes mutants of a file, `trial` runs tests on one,
`campaign` draws many and reports the survivors.

    make mutants                           # for 20 minutes, from a seed that is drawn and printed
    make mutants ARGS="--seed 7 --count 200 --minutes 240"
"""
