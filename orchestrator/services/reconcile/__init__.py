"""One pass of the reconciler: ``look`` what is, ``decide`` (pure) what to do, ``apply`` it.

Every step can be repeated. The store moves a run only from the state that was seen. To an agent a second start or stop
is as one. Entries of logs are stored by their number. So when a server dies between any two steps, the next one goes
on.
"""
