"""What a model's ``[optimizer]`` says, for the batch of a job."""


def of_job(job):
    """Return {learning_rate, momentum, weight_decay}: the rate is scaled to the global batch.

    Source of the proportion: Goyal et al., "Accurate, Large Minibatch SGD", 2017. Its gradual warm-up is left out: at
    the batches of one machine the rate is small.
    """
    facts = job["model"]["optimizer"]
    samples = job["plan"]["per_device_batch_size"] * job["world_size"]
    return {
        "learning_rate": facts["learning_rate"] * samples / float(facts["learning_rate_samples"]),
        "momentum": facts["momentum"],
        "weight_decay": facts["weight_decay"],
    }
