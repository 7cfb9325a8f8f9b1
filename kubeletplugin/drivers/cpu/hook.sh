#!/bin/sh
# Gives a container its CPUs before its first instruction: an OCI createRuntime hook.
#
#   sh hook.sh CLAIM_UID REQUEST CPUS [unthrottled] <state-of-the-container.json
#
# The runtime runs it on the host, once for each request of a CPU claim that the container refers to, when the cgroup is
# there and the process waits in it. Nothing but a POSIX shell is needed, and mkdir, rm, cat, sleep.
#
# The container's cgroup is the one right below its pod's. A runtime may put the process into a cgroup below that one
# (crun: …/crio-ID.scope/container), whose name then says nothing about the container. The levels are those of
# kubeletplugin/cgroups/cgroup_names.py.
#
# 1. Record that the container owns the CPUs (containers/CGROUP/CLAIM_UID.REQUEST): the plugin, which narrows all other
#    containers, must find the record before the CPUs are written, or it would revert the write. The record's first line
#    is all that earlier builds read; the second one has the container's cgroup.
# 2. Widen the cgroups above the container. The plugin may narrow them again at the same moment, if it read the records
#    before step 1; therefore the result is read back and everything is repeated until it holds.
# 3. Write the CPUs of all requests that are recorded for this container: the last hook must not replace the others'.
#    They are written to the container's cgroup and to those below it, down to the process.
#    CPUs that are offline are left out, as long as one of the request's CPUs is online.
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

# The plugin compares what was prepared with what is there: a number may stand for another CPU by now.
if read -r why 2>/dev/null <"$folder/refused/$claim"; then
    fail "$why"
fi

# Find the levels of a cgroup's path: sets pods (all pods), pod and own (the container), each a path.
# The last kubelet counts: one in a container has its cgroups below another one's.
locate() {
    level= at= rest=${1#/} pods= pod= own=
    while [ -n "$rest" ]; do
        name=${rest%%/*} at=$at/${rest%%/*}
        case $rest in */*) rest=${rest#*/} ;; *) rest= ;; esac
        case $level,$name in
        *,kubepods | *,kubepods.slice | *-kubepods | *-kubepods.slice) level=pods pods=$at pod= own= ;;
        pods,burstable | pods,besteffort | pods,burstable.slice | pods,besteffort.slice) level=qos ;;
        pods,*kubepods-burstable.slice | pods,*kubepods-besteffort.slice) level=qos ;;
        pods,pod*[!A-Za-z0-9_-]* | qos,pod*[!A-Za-z0-9_-]*) level= ;;
        pods,pod?* | qos,pod?*) level=pod pod=$at ;;
        pods,*kubepods-*.slice | qos,*kubepods-*.slice)
            level= uid=${name##*kubepods-}
            case $uid in burstable-* | besteffort-*) uid=${uid#*-} ;; esac
            uid=${uid%.slice}
            case $uid in
            pod*[!A-Za-z0-9_]*) ;;
            pod?*) level=pod pod=$at ;;
            esac
            ;;
        pod,*) level=container own=$at ;;
        container,*) ;;
        *) level= ;;
        esac
    done
    [ -n "$own" ]
}

# Print each CPU of a list such as 0-3,8, in the list's order.
members() (
    IFS=,
    for range in $1; do
        cpu=${range%-*}
        while [ "$cpu" -le "${range#*-}" ]; do
            printf '%s,' "$cpu"
            cpu=$((cpu + 1))
        done
    done
)

# Print those CPUs of a list that pods have now, in ascending order: offline ones are not among these.
present() (
    read -r there 2>/dev/null <"$base$pods/$effective" || there=$1
    wanted=,$(members "$1")
    IFS=,
    for cpu in $(members "$there"); do
        case $wanted in *",$cpu,"*) printf '%s,' "$cpu" ;; esac
    done
)

# Id and pid, from JSON without a parser: annotations, which users write, come last and are cut off.
state=$(cat)
state=${state%%\"annotations\"*}
id=${state#*\"id\"*\"}
id=${id%%\"*}
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

case $path/ in */../*) fail "its cgroup $path is outside of the visible hierarchy" ;; esac
case $path in *kubepods*) ;; *) fail "its cgroup $path is not below the kubelet's kubepods" ;; esac
locate "$path" || fail "its cgroup $path is not in that of a pod: which container it belongs to cannot be told"
container=${own##*/}
# Container runtimes of Kubernetes number containers with 64 hexadecimal digits, and name cgroups after them.
case ${#id},$id in
64,*[!0-9a-f]*) ;;
64,*)
    case $container in *"$id"*) ;; *)
        fail "its cgroup $path is not the one of container $id, which the runtime starts: a runtime that keeps several" \
            "containers in one cgroup, such as a virtual machine for each pod, cannot give one of them CPUs of its own"
        ;;
    esac
    ;;
esac
[ -w "$base$own/cpuset.cpus" ] || fail "$base$own/cpuset.cpus cannot be written: is there a cpuset controller?"

record=$folder/containers/$container
for file in "$record"/*; do
    whose=
    { read -r _ && read -r whose; } 2>/dev/null <"$file"
    [ -n "$whose" ] && [ "$whose" != "$own" ] || continue
    [ ! -d "$base$whose" ] || fail "two containers have a cgroup of that name, $own and $whose"
    rm -f "$file"
done
mkdir -p "$record" && printf '%s\n%s\n' "$cpus" "$own" >"$record/$claim.$request" || fail "$record cannot be written"
mine=
for file in "$record"/*; do
    read -r list <"$file" && mine=${mine:+$mine,}$list
done

lowest=$path
while [ "$lowest" != "$own" ] && [ ! -e "$base$lowest/cpuset.cpus" ]; do
    lowest=${lowest%/*} # v2: the runtime passes no cpuset on to the cgroup of the process
done

put() {
    rest=${lowest#"$pods"/} at=$base$pods
    while [ "${rest#*/}" != "$rest" ]; do
        at=$at/${rest%%/*} rest=${rest#*/} now=
        read -r now <"$at/cpuset.cpus"
        # Empty in v2: the cgroup has its parent's CPUs.
        [ -z "$now" ] && [ "$effective" = cpuset.cpus.effective ] || printf '%s' "${now:+$now,}$want" >"$at/cpuset.cpus"
    done
    at=$lowest # from below: in v1 a cgroup has all CPUs of those below it
    while printf '%s\n' "$want" >"$base$at/cpuset.cpus" || return 1; do
        [ "$at" != "$own" ] || break
        at=${at%/*}
    done
    read -r now <"$base$lowest/$effective" || return 1
    [ "$now" = "$want" ] || [ "$(members "$now")" = "$(present "$mine")" ]
}

tries=0 want=$mine
until put 2>/dev/null; do
    [ -n "$(present "$cpus")" ] ||
        fail "none of them is online (pods have $(cat "$base$pods/$effective")): delete the pod, so that the claim is" \
            "allocated again, or switch one of them on"
    if [ "$effective" = cpuset.effective_cpus ]; then # v1 refuses offline CPUs; v2 keeps them for their return
        want=$(present "$mine")
        want=${want%,}
    fi
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || fail "the kernel refuses or reverts the write: see cpuset.cpus of $base$own and above"
    [ "$tries" -lt 5 ] || sleep 0.02 2>/dev/null || sleep 1
done
if [ "$now" != "$mine" ] && [ "$(present "$cpus")" != "$(members "$cpus")" ]; then
    tell "claim uid $claim: container $container runs on CPUs $now of $mine: the others are offline"
fi

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
locate "$path" || exit 0 # another hierarchy than that of the CPUs, in which the runtime made no cgroup for the container
# In v1 a child may have no quota below a parent with one, so the lowest goes first.
while :; do
    if [ -e "$base$path/$file" ]; then # elsewhere there are no quotas: the controller is not in use
        printf '%s' "$none" 2>/dev/null >"$base$path/$file" ||
            tell "claim uid $claim: container $container runs with its CPU quota: $base$path/$file cannot be written"
    fi
    [ "$path" != "$pod" ] || break
    path=${path%/*}
done
exit 0
