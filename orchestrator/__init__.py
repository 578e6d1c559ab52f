"""The service: when and where things run, and what became of them.

The walk of a run, from a request to a number. Each step says what happens, and below that where: a file, and the
functions and types in it that do it. A test looks every name up (tests/architecture/test_walk.py).

 1. The service is put together once: facts from TOML files (of models, datasets and frameworks), a store, a cluster,
    and a thread that reconciles.
    ``orchestrator/app.py: serve, running_service, make_cluster``
    ``orchestrator/services/facts/catalog.py: load_catalog``
    ``orchestrator/services/context.py: Context``
 2. A request arrives with an experiment: ``tbd submit`` and ``tbd run`` send the same one as any other client. The door
    looks at its token first: who asks, and whether the token's scope covers this request.
    ``orchestrator/api/door/access.py: Door, NEEDED, allowed``
    ``orchestrator/services/tokens.py: Gate.admit``
    ``orchestrator/api/routers/experiments.py: submit_experiment``
    ``orchestrator/services/experiment/submit.py: submit, plan``
    A schedule is only another submitter: at each of its times a thread does the same in its owner's name.
    ``orchestrator/services/schedule/scheduler.py: Scheduler.look``
    ``orchestrator/domain/around/schedule.py: judged``
    ``orchestrator/services/schedule/schedules.py: submitted``
 3. Its body becomes a spec. What is unknown or contradicts itself is refused, with a pointer to the place.
    ``orchestrator/domain/asked/spec.py: parse_spec, ExperimentSpec``
 4. What no framework or model can do is refused. What remains becomes plans: one for each cell of the grid and each
    repetition, with nothing left open.
    ``orchestrator/domain/asked/facts.py: facts_of, Facts``
    ``orchestrator/domain/expansion/refusals.py: in_spec, why_impossible``
    ``orchestrator/domain/expansion/sweep.py: check, expand, left_out``
    ``orchestrator/domain/expansion/repetitions.py: missing, in_blocks``
    ``orchestrator/domain/asked/plan.py: Plan``
 5. The experiment and its runs, all queued, are stored in one transaction. Only then is the request answered.
    ``orchestrator/services/experiment/submit.py: new_runs``
    ``orchestrator/domain/runs/run.py: Experiment, Run, RunState, MOVES``
    ``orchestrator/domain/ports.py: Store``
    ``orchestrator/db/store.py: SqlStore.add_experiment``
 6. The reconciler wakes. One pass of it looks at the store and the agents, decides without touching anything, and then
    applies what it decided. Steps 7 to 12 are such decisions. Each run, node and experiment has a lane of its own: what
    fails or hangs in one is noted there, and keeps no other waiting.
    ``orchestrator/services/reconcile/reconciler.py: Bell, Reconciler.reconcile``
    ``orchestrator/services/reconcile/situation.py: Lookout.look, Situation``
    ``orchestrator/services/reconcile/decisions.py: decide, Action``
    ``orchestrator/services/reconcile/application.py: Hands.apply``
    ``orchestrator/services/reconcile/lanes.py: Lanes``
    ``orchestrator/services/reconcile/trouble.py: Troubles, WatchedCluster``
 7. A queued run gets devices, or has to wait and says for what.
    ``orchestrator/domain/asked/placement.py: place, Placement, NotNow``
 8. The attempt is stored, with a secret token, before any process starts. The length of the run is chosen from what
    earlier runs showed, and never changes later. Both go into the job, the one thing that travels to the hosts.
    ``orchestrator/services/reconcile/decisions.py: Launch``
    ``orchestrator/services/reconcile/application.py: _launch, _job``
    ``orchestrator/services/reconcile/expectations.py: expected_of``
    ``orchestrator/services/reconcile/job.py: build_job, processes_of``
    ``workers/trainer/protocol.py: PROTOCOL_VERSION, check_job``
 9. The agent of each node that takes part is told to start, through Ray or by the local cluster.
    ``orchestrator/domain/ports.py: Cluster``
    ``orchestrator/cluster/agents.py: AgentCluster.start``
    ``orchestrator/cluster/ray_cluster.py: RayCluster``
    ``orchestrator/cluster/local.py: LocalCluster``
10. The hosts train. ``workers/__init__.py`` has that part of the walk: it ends with a log on each node.
    ``workers/node/agent.py: Agent.start, Agent.fetch``
11. While the run lives its logs are fetched and stored, entry by entry, by (attempt, node, number). What is stored is
    acknowledged, so that the agent may delete it.
    ``orchestrator/services/reconcile/decisions.py: Fetch``
    ``orchestrator/services/reconcile/fetch_log.py: fetch_log``
    ``orchestrator/db/store.py: SqlStore.append_entries``
12. All processes are dead and all logs are stored: the run is concluded.
    ``orchestrator/services/reconcile/decisions.py: Conclude``
    ``orchestrator/services/reconcile/conclude.py: conclude, analyse_attempt``
13. The entries become typed intervals and readings. A log that breaks the protocol is a failure, not an exception.
    ``orchestrator/analysis/log/events.py: read_log, NodeLog, Interval, Reading``
14. One pure function turns the logs into measurements. Did the run fail? Is it one world of ranks? Where does the
    warm-up end? Did it train rightly, and did anything disturb it? How fast was it, and why not faster?
    ``orchestrator/analysis/analyse.py: analyse, gather``
    ``orchestrator/analysis/log/failures.py: failure_of``
    ``orchestrator/analysis/run/throughput.py: world_intervals, rate_measurement``
    ``orchestrator/analysis/statistics/settling.py: cut_of``
    ``orchestrator/analysis/run/validity.py: judge``
    ``orchestrator/analysis/run/ladder.py: measurements``
    ``orchestrator/analysis/profile/profiles.py: profiles_of``
    ``orchestrator/domain/value/measurement.py: Analysis, Measurement, Validity, METRICS``
15. The measurements, the failure and the fingerprint are stored in one transaction with the state that ends the run:
    completed, failed or cancelled. After some failures the run is queued again, for another attempt.
    ``orchestrator/services/reconcile/conclude.py: outcome``
    ``orchestrator/domain/value/failure.py: Failure, FailureKind, may_retry``
    ``orchestrator/domain/asked/fingerprint.py: fingerprint``
    ``orchestrator/db/store.py: SqlStore.conclude``
16. The experiment is reviewed: does a cell need more runs, or is everything over? More runs begin at step 5.
    ``orchestrator/services/reconcile/review.py: review``
17. The runs of a cell are put together as its row of results: the runs that count, one common end of the warm-up, the
    mean over runs, and its interval from the variance between them. It is stored in the transaction that ends the last
    of them, and made anew for whoever asks while one is left.
    ``orchestrator/db/run/cell_rows.py: keep``
    ``orchestrator/analysis/cell/row.py: row_of, row_of_cell``
    ``orchestrator/domain/runs/row.py: Row``
    ``orchestrator/services/result/results.py: of_experiment``
    ``orchestrator/domain/runs/basis.py: basis_of``
    ``orchestrator/analysis/cell/cells.py: recut``
    ``orchestrator/analysis/cell/between_runs.py: over_runs``
18. Cells are compared with each other, block by block, and experiments with each other.
    ``orchestrator/services/result/comparison.py: pairs, sides``
    ``orchestrator/analysis/statistics/blocks.py: Pair``
    ``orchestrator/services/result/scaling.py: scaling``
    An iteration of several devices is taken apart, from one device to what was measured.
    ``orchestrator/services/result/explain.py: explain``
    ``orchestrator/analysis/s_sgd/explain/waterfall.py: waterfall``
    And a workload night by night: its points over all experiments, the baselines that they form, and their borders.
    ``orchestrator/services/history/workload.py: history``
    ``orchestrator/analysis/history/baselines.py: baselines_of``
    ``orchestrator/analysis/gate/suspects.py: moves_of``
    What looks slower in a schedule's nights is tried: an experiment of the gate, whose blocks are added at step 16.
    ``orchestrator/services/gate/gatekeeper.py: Gatekeeper.look``
    ``orchestrator/services/gate/again.py: sides_of``
    ``orchestrator/services/gate/trials.py: experiment_of``
    ``orchestrator/services/reconcile/confirming.py: missing``
    What that told is sent to webhooks.
    ``orchestrator/services/gate/outbox.py: tell``
    ``orchestrator/services/gate/messenger.py: Messenger.look``
    ``orchestrator/serve/webhook_post.py: post``
19. The number is shown: as JSON, in a table, on a page, in a report.
    ``orchestrator/api/routers/results.py: router``
    ``orchestrator/reports/tables/results_table.py: results_table``
    ``orchestrator/cli/printing/tables.py: print_results``
    ``orchestrator/web/experiment.py: experiment``
    ``orchestrator/reports/experiment_report.py: experiment_report``

The rooms: ``domain`` and ``analysis`` do no input or output. ``services`` hold a use case each and receive the adapters
in a ``Context``. ``db``, ``cluster``, ``api``, ``reports``, ``web`` and ``cli`` are the edges.
docs/build/architecture.md says who may import whom.
"""
