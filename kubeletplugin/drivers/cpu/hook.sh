#!/bin/sh
# Gives a container its CPUs before its first instruction: an OCI createRuntime hook.
#
#   sh hook.sh CLAIM_UID REQUEST CPUS [unthrottled] <state-of-the-container.json
#
# The runtime runs it on the host, once for each request of a CPU claim that the container refers to, when the cgroup is
# there and the process waits in it. Nothing but a POSIX shell is needed, and mkdir, cat, sleep.
#
# 1. Record that the container owns the CPUs (containers/CGROUP/CLAIM_UID.REQUEST): the plugin, which narrows all other
#    containers, must find the record before the CPUs are written, or it would revert the write.
# 2. Widen the cgroups above the container. The plugin may narrow them again at the same moment, if it read the records
#    before step 1; therefore the result is read back and everything is repeated until it holds.
# 3. Write the CPUs of all requests that are recorded for this container: the last hook must not replace the others'.
#
# 4. With "unthrottled": lift the CPU quota of the container and of its pod. A limit of n CPUs on n own CPUs protects
#    nobody, and the kernel would throttle the container all the same.
#
# When it fails, the container does not start, its pod shows the message, and the plugin logs it (failures/).

PATH=/usr/sbin:/usr/bin:/sbin:/bin
root=${DRA_RESERVE_CGROUPS:-/sys/fs/cgroup}
proc=${DRA_RESERVE_PROC:-/proc}
folder=${0%/*}
claim=$1 request=$2 cpus=$3
container=unknown

tell() {
    printf '%s\n' "$*" >&2
    printf '%s\n' "$*" 2>/dev/null >"$folder/failures/$container"
}

fail() {
    tell "claim uid $claim: container $container does not get CPUs $cpus: $*"
    exit 1
}

# The pid, from JSON without a parser: annotations, which users write, come last and are cut off.
state=$(cat)
state=${state%%\"annotations\"*}
pid=${state#*\"pid\"}
[ "$pid" != "$state" ] || fail "the runtime's state has no pid before the annotations"
pid=${pid#"${pid%%[0-9]*}"}
pid=${pid%%[!0-9]*}
[ -r "$proc/$pid/cgroup" ] || fail "$proc/$pid/cgroup cannot be read"

base= path=
while IFS=: read -r _ controllers at; do
    case ,$controllers, in
    *,cpuset,*)
        base=$root/$controllers path=$at
        [ -d "$base" ] || base=$root/cpuset
        effective=cpuset.effective_cpus
        break
        ;;
    ,,)
        base=$root path=$at
        [ -e "$base/cgroup.controllers" ] || base=$root/unified
        effective=cpuset.cpus.effective
        ;;
    esac
done <"$proc/$pid/cgroup"

container=${path##*/}
case $path in
*/..*) fail "its cgroup $path is outside of the visible hierarchy" ;;
*kubepods*/?*/?*) ;;
*) fail "its cgroup $path is not below the kubelet's kubepods" ;;
esac
[ -w "$base$path/cpuset.cpus" ] || fail "$base$path/cpuset.cpus cannot be written: is there a cpuset controller?"

record=$folder/containers/$container
mkdir -p "$record" && printf '%s\n' "$cpus" >"$record/$claim.$request" || fail "$record cannot be written"
mine=
for file in "$record"/*; do
    read -r list <"$file" && mine=${mine:+$mine,}$list
done

put() {
    at=$base rest=${path#/} below=
    while [ "${rest#*/}" != "$rest" ]; do
        name=${rest%%/*} rest=${rest#*/} at=$at/$name
        if [ -n "$below" ]; then
            # Empty in v2: the cgroup has its parent's CPUs.
            read -r now <"$at/cpuset.cpus" && [ -n "$now" ] && printf '%s' "$now,$mine" >"$at/cpuset.cpus"
        fi
        case $name in *kubepods*) below=yes ;; esac # the kubelet's own cgroup is never narrow
    done
    printf '%s\n' "$mine" >"$at/$rest/cpuset.cpus" || return 1
    read -r own <"$at/$rest/cpuset.cpus" && read -r now <"$at/$rest/$effective" && [ "$own" = "$now" ]
}

tries=0
until put 2>/dev/null; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || fail "the kernel refuses or reverts the write: see cpuset.cpus of $base$path and above"
    [ "$tries" -lt 5 ] || sleep 0.02 2>/dev/null || sleep 1
done

[ "$4" = unthrottled ] || exit 0
file=
while IFS=: read -r _ controllers at; do
    case ,$controllers, in
    *,cpu,*)
        base=$root/$controllers file=cpu.cfs_quota_us none=-1
        [ -d "$base" ] || base=$root/cpu
        path=$at
        break
        ;;
    ,,)
        base=$root file=cpu.max none=max path=$at
        [ -e "$base/cgroup.controllers" ] || base=$root/unified
        ;;
    esac
done <"$proc/$pid/cgroup"
# In v1 a child may have no quota below a parent with one, so the container goes first.
for each in "$base$path" "$base${path%/*}"; do
    [ -e "$each/$file" ] || continue # no quotas here: the controller is not in use
    printf '%s' "$none" 2>/dev/null >"$each/$file" ||
        tell "claim uid $claim: container $container runs with its CPU quota: $each/$file cannot be written"
done
exit 0
