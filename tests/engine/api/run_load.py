"""`make load-clients`: 500 clients at the demo model in its image, slow readers and leavers among them."""


def test_500_clients(engine):
    """128 run and 372 wait: nobody is refused, and the books agree."""
    words = "windlass run --dtype float32 --max-model-len 1024 --served-model-name demo"
    with engine.serving(*words.split()) as url:
        report = engine.load(url, "--clients", "500", "--requests", "500")
    for figure in report["rounds"][0]:
        print(figure.ljust(18), *(str(one[figure]).rjust(16) for one in report["rounds"]))
    print(f"memory after the warm-ups {report['before_mib']} MiB, at the end {report['after_mib']} MiB")
    assert report["mistakes"] == []
