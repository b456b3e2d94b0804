"""The simulated prefix cache."""

from proxy.demo.provider.cache import Prefix, PrefixCache


def a_cache(**changes):
    return PrefixCache(**{"ttl_s": 60.0, "minimum": 100, "granularity": 1, **changes})


def prefixes(names, each=100):
    return [Prefix(key=names[: end + 1].encode(), tokens=each * (end + 1)) for end in range(len(names))]


def test_the_longest_known_prefix_is_read():
    cache = a_cache()
    first = cache.automatic(prefixes("abc"), 0.0)
    second = cache.automatic(prefixes("abxyz"), 1.0)

    assert first == (0, 300)
    assert second == (200, 500)


def test_reads_come_in_steps_and_not_below_the_minimum():
    cache = a_cache(granularity=128, minimum=200)
    cache.automatic(prefixes("abc"), 0.0)

    assert cache.automatic(prefixes("abc"), 0.0) == (256, 256)
    assert cache.automatic(prefixes("ax"), 0.0) == (0, 128)


def test_use_renews_a_prefix_and_time_ends_it():
    cache = a_cache()
    cache.automatic(prefixes("ab"), 0.0)

    assert cache.automatic(prefixes("ab"), 59.0)[0] == 200
    assert cache.automatic(prefixes("ab"), 118.0)[0] == 200
    assert cache.automatic(prefixes("ab"), 179.0)[0] == 0


def test_entries_are_written_at_marks_only():
    cache = a_cache()
    cache.marked(prefixes("abc"), {1}, 0.0)

    # What stands behind the mark was not kept, what stands before it is found through it.
    assert cache.marked(prefixes("abc"), {2}, 0.0) == (200, 300)
    assert cache.marked(prefixes("axc"), {2}, 0.0) == (0, 300)


def test_an_entry_is_found_at_most_twenty_places_before_a_mark():
    cache = a_cache()
    cache.marked(prefixes("a"), {0}, 0.0)

    assert cache.marked(prefixes("a" + "b" * 19), {19}, 0.0)[0] == 100
    cache = a_cache()
    cache.marked(prefixes("a"), {0}, 0.0)
    assert cache.marked(prefixes("a" + "b" * 20), {20}, 0.0)[0] == 0


def test_an_evicted_cache_knows_nothing():
    cache = a_cache()
    cache.automatic(prefixes("ab"), 0.0)
    cache.clear()

    assert cache.automatic(prefixes("ab"), 0.0)[0] == 0
