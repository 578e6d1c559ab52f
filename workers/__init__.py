"""How one run is carried out on a host: the node's agent, and the processes that train.

The walk of an attempt on its hosts, from the job to a closed log (step 10 of ``orchestrator/__init__.py``). Each step
says what happens, and below that where. A test looks every name up (tests/architecture/test_walk.py).

 1. The agent of a node is asked to start an attempt. It answers at once: a thread carries the attempt out. The same
    job can come without a service, from ``python -m workers.node JOB.json``.
    ``workers/node/agent.py: Agent.start``
    ``workers/node/__main__.py: main``
    ``workers/node/one_host.py: carry_out``
    ``workers/node/supervisor.py: Supervisor.run``
    A person's own script is carried out by a supervisor of its own, which lets its ranks say who they are.
    ``workers/node/own/script.py: OwnScript, OwnGang``
    ``workers/trainer/hook.py: Meter, Torch``
 2. The job is completed by what only this node knows: the path of the interpreter, the folder of the dataset, ports.
    Then the log is opened with the whole job, but for its secret token, and all facts of the machine in it.
    ``workers/node/prepare.py: complete, dataset_files``
    ``workers/node/interpreters/__init__.py: resolve``
    ``workers/node/inventory.py: Inventory.read``
    ``workers/node/provenance.py: Provenance.read``
    ``workers/node/event_log.py: EventLog``
 3. The processes of this node are started, each in the framework's own interpreter and on its own cores or GPU. A small
    program between fork and exec pins them. Where MPI has to start the ranks, the agent starts a launcher on each node
    instead, and MPI starts the ranks through those.
    ``workers/node/gang.py: Gang.start``
    ``workers/node/children.py: Spawner.popen, of_process``
    ``workers/node/before_exec.py: main``
    ``workers/node/mpi/launch.py: main``
    ``workers/node/mpi/rank.py: main``
 4. Beside them the machine is watched: cores, memory, network, devices, and whatever else runs there.
    ``workers/node/telemetry/sampler.py: Sampler``
    ``workers/node/telemetry/census.py: Census``
    ``workers/node/telemetry/nvml.py: Nvml``
 5. A training process reads its job into types, locks its device, imports its framework, and opens its end of the
    control channel. A process of a model's own role, such as an actor, reads the job and does only the model's part.
    ``workers/trainer/__main__.py: main, run, load``
    ``workers/trainer/protocol.py: read_job, check_job, EventWriter``
    ``workers/trainer/base/job.py: read, Job``
    ``workers/trainer/host.py: lock_devices``
    ``workers/trainer/control/__init__.py: open_channel``
    ``workers/trainer/control/leader.py: Leader``
    ``workers/trainer/control/member.py: Member``
    ``workers/trainer/base/roles.py: connect``
 6. The one loop that times every framework prepares: the ranks meet on the control channel and by the framework's own
    means, and the adapter builds the model. ``suites/__init__.py`` has the building.
    ``workers/trainer/loops/training.py: Loop.run, Loop._prepare``
    ``workers/trainer/loops/session.py: Session._meet``
    ``workers/trainer/frameworks/__init__.py``
    ``workers/trainer/frameworks/pytorch/adapter.py: Adapter.join, Adapter.build``
    ``workers/trainer/frameworks/pytorch/framework.toml``
 7. Interval by interval: rank 0 says how many steps come next, all ranks do them, wait for their device, and report how
    long that took. Nothing else happens inside an interval.
    ``workers/trainer/loops/pace.py: Pace``
    ``workers/trainer/control/leader.py: Leader.turn``
    ``workers/trainer/loops/training.py: Loop._train, Loop._interval``
    ``workers/trainer/frameworks/pytorch/adapter.py: Adapter.step, Adapter.synchronize``
 8. What the processes write is checked and appended to the node's log, under numbers without a gap.
    ``workers/node/gang.py: Gang.hear``
    ``workers/trainer/protocol.py: EVENTS, check_event``
    ``workers/node/event_log.py: EventLog.extend``
 9. When the length that the job fixed is reached, or a limit, rank 0 is told, and all ranks stop at the same step.
    ``workers/node/length.py: Length.decide``
    ``workers/node/stopping.py: StoppingRule``
    ``workers/node/stop_channel.py: send_stop``
10. The profiles that were asked for are made, after the timed part or in processes of their own, and every rank says
    what its weights have become.
    ``workers/trainer/loops/training.py: Loop._profile, Loop._compare``
    ``workers/trainer/profiling.py: phases, allocations``
    ``workers/trainer/frameworks/kernel_table.py: table``
    ``workers/trainer/frameworks/allocation_profile.py: answer``
    ``workers/node/supervisor.py: Supervisor._apart``
    ``workers/trainer/replica.py: describe``
11. The processes end, or are ended: by a limit, a request, a failed rank, or a service that has fallen silent. None of
    them is left running. The log is closed, with the cause of the failure if there was one.
    ``workers/node/processes.py: end_all``
    ``workers/node/outcome.py: of_exit, cause``
    ``workers/node/event_log.py: EventLog.close``
12. The service fetches the log in parts, also while it grows. What it has stored it acknowledges.
    ``workers/node/agent.py: Agent.wait, Agent.fetch, Agent.acknowledge``

Three folders. ``node`` is the agent. ``trainer`` is an island: it runs inside each framework's interpreter, some of
which are Python 3.6, with the standard library and that framework only. ``interpreters`` defines these environments.
"""
