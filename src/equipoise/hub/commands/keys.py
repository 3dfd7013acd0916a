"""Redis's commands for keys, values and scripts, which a hub rejects with an explanation."""

from __future__ import annotations

from equipoise.resp import Command

_NAMES = b"""
    append bitcount bitfield bitfield_ro bitop bitpos blmove blmpop blpop brpop brpoplpush bzmpop bzpopmax
    bzpopmin copy dbsize decr decrby dump eval eval_ro evalsha evalsha_ro expire
    expireat expiretime fcall fcall_ro function geoadd geodist geohash geopos georadius
    georadius_ro georadiusbymember georadiusbymember_ro geosearch geosearchstore get getbit getdel getex
    getrange getset hdel hexists hget hgetall hincrby hincrbyfloat hkeys hlen hmget hmset hrandfield hscan
    hset hsetnx hstrlen hvals incr incrby incrbyfloat keys lcs lindex linsert llen lmove lmpop lpop lpos
    lpush lpushx lrange lrem lset ltrim mget migrate move mset msetnx object persist pexpire pexpireat
    pexpiretime pfadd pfcount pfmerge psetex pttl randomkey rename renamenx restore rpop rpoplpush rpush
    rpushx sadd scan scard script sdiff sdiffstore set setbit setex setnx setrange sinter sintercard
    sinterstore sismember smembers smismember smove sort sort_ro spop srandmember srem sscan strlen substr
    sunion sunionstore swapdb touch ttl zadd zcard zcount zdiff zdiffstore
    zincrby zinter zintercard zinterstore zlexcount zmpop zmscore zpopmax zpopmin zrandmember zrange
    zrangebylex zrangebyscore zrangestore zrank zrem zremrangebylex zremrangebyrank zremrangebyscore
    zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion zunionstore
"""

KEY_COMMANDS = frozenset(_NAMES.split())


# Commands that this hub could execute if it had storage for logs.
_LOG_COMMANDS = frozenset(
    b"""xack xadd xautoclaim xcfgset xclaim xdel xgroup xinfo xlen xpending xrange xread xreadgroup xrevrange xsetid
    xtrim del exists type unlink eq.steps eq.logs""".split()
)


def unknown_command(command: Command) -> str:
    """Redis's error text with its preview of the arguments; Redis's commands for keys get an explanation."""
    name = command[0].decode("utf-8", "surrogateescape")
    if command[0].lower() in _LOG_COMMANDS:
        return (
            f"ERR '{name}' works on logs, and this hub has no storage: start it with --data FOLDER, or use "
            "SUBSCRIBE and PUBLISH"
        )
    if command[0].lower() in KEY_COMMANDS:
        return (
            f"ERR '{name}' works on keys, and a hub has none; "
            "use SUBSCRIBE and PUBLISH here, and a Redis server for keys"
        )
    preview = ""
    for argument in command[1:]:
        if len(preview) >= 128:
            break
        # Redis prints C strings, which a NUL ends.
        shown = argument[: 128 - len(preview)].partition(b"\0")[0]
        preview += f"'{shown.decode('utf-8', 'surrogateescape')}' "
    return f"ERR unknown command '{name[:128]}', with args beginning with: {preview}"
