"""Who hears that something was stored, and whether anybody follows a run."""

from orchestrator.services.news import News


def test_all_that_listen_are_told_until_they_leave():
    news, heard = News(), []
    with news.listening(lambda: heard.append("one")):
        with news.listening(lambda: heard.append("two")):
            news.tell()
        news.tell()
    news.tell()
    assert heard == ["one", "two", "one"]


def test_a_run_is_followed_until_its_last_follower_has_gone():
    news = News()
    with news.following("run_1"):
        with news.following("run_1"):
            pass
        assert news.is_followed(["run_2", "run_1"])
        assert not news.is_followed(["run_2"])
    assert not news.is_followed(["run_1"])
