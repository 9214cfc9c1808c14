# What "muster cluster" does on a machine, as root. The variables ACTION and others are set before this text; remote.c
# quotes them. Every action can be repeated, also after it was cut off at any place. Results are lines KEY=VALUE on
# standard output, faults one line on standard error. POSIX sh.
set -eu
umask 022
LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
top=/opt/muster            # releases of tarballs: $top/DIGEST, and the link $top/current
state=/var/lib/muster-cluster # digest of the installed packages
cache=/var/cache/muster-cluster
logs=/var/log/muster
own_unit=/etc/systemd/system/muster-master.service.d

say() { printf '%s=%s\n' "$1" "$2"; }
fail() {
    printf '%s\n' "$*" >&2
    exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }
has_systemd() { [ -d /run/systemd/system ] && has systemctl; }
running_exe() { readlink "/proc/$1/exe" 2>/dev/null | sed 's/ (deleted)$//'; }

# --- files ---------------------------------------------------------------------------------------

# put PATH MODE OWNER TEXT [DAEMON]: writes the file unless it has that content; then the next start restarts the daemon
put() {
    if [ ! -f "$1" ] || [ "$(cat "$1")" != "$(printf '%s' "$4")" ]; then
        mkdir -p "${1%/*}"
        (umask 077 && printf '%s\n' "$4" >"$1.new")
        chmod "$2" "$1.new"
        chown "$3" "$1.new"
        sync "$1.new"
        [ $# -lt 5 ] || touch "/run/muster-$5.stale" # before the file: this script may be cut off between them
        mv "$1.new" "$1"
        changed=yes
    fi
}

# folder PATH MODE OWNER: makes it; a folder that is there keeps its owner and mode
folder() { [ -d "$1" ] || install -d -m "$2" -o "${3%:*}" -g "${3#*:}" "$1" || fail "the folder $1 cannot be made"; }

# --- accounts and folders, as those of the packages ------------------------------------------------

system_group() { getent group "$1" >/dev/null || groupadd --system ${2:+-g "$2"} "$1"; }
system_user() {
    getent passwd "$1" >/dev/null || useradd --system --home-dir "$2" --no-create-home --shell /usr/sbin/nologin --user-group "$1"
    id -nG "$1" | tr ' ' '\n' | grep -qx muster-checkpoints || usermod -a -G muster-checkpoints "$1"
}

accounts() {
    if getent group 970 >/dev/null; then system_group muster-checkpoints; else system_group muster-checkpoints 970; fi
    if [ "$MASTER" = yes ]; then
        system_user muster /var/lib/muster
        folder /var/lib/muster 0700 muster:muster
    fi
    if [ "$AGENT" = yes ]; then
        system_user muster-task / # the agent runs as root and starts tasks under this account
        folder /var/lib/muster-agent 0700 root:root
        folder /determined_shared_fs 0755 root:root
        put /etc/tmpfiles.d/muster-cluster.conf 0644 root:root "d /run/determined 0755 root root -"
        folder /run/determined 0755 root:root
    fi
    folder "$CHECKPOINTS" 2770 root:muster-checkpoints
}

# --- installation ----------------------------------------------------------------------------------

# The digest of the release that is installed; empty: none
installed() {
    if [ -L $top/current ]; then readlink $top/current; else cat $state/packages 2>/dev/null || true; fi
}

# release: prints what is installed and what is there to be installed
action_release() {
    say installed "$(installed)"
    if [ -e "$top/$DIGEST/.complete" ]; then say unpacked yes; else say unpacked no; fi
    for file in $FILES; do
        if [ -f "$cache/$file" ]; then say "copied $file" yes; fi
    done
}

# unpack: makes the copied release ready beside the present one
action_unpack() {
    [ "$KIND" = tarball ] || return 0
    [ ! -e "$top/$DIGEST/.complete" ] || return 0
    rm -rf "${top:?}/$DIGEST" "$top/new.$DIGEST"
    mkdir -p "$top/new.$DIGEST"
    tar -C "$top/new.$DIGEST" --strip-components=1 --no-same-owner -xf "$cache/$FILES" ||
        fail "the tarball cannot be unpacked in $top; df shows whether the disk is full"
    [ -x "$top/new.$DIGEST/bin/muster-agent" ] || fail "the tarball holds no bin/muster-agent; it is no release of Muster"
    "$top/new.$DIGEST/bin/muster-agent" --version >/dev/null || fail "its programs do not run on this machine"
    touch "$top/new.$DIGEST/.complete"
    sync -f "$top"
    mv -T "$top/new.$DIGEST" "$top/$DIGEST"
    rm -f "$cache/$FILES"
    changed=yes
}

# Units name programs in /usr/bin; those of a tarball are in $top/current/bin.
units() {
    names=$ROLES
    [ "$AGENT" = no ] || names="$names tasks" # in whose cgroup the agent puts the tasks
    for unit in $names; do
        file=$top/current/lib/systemd/system/muster-$unit.service
        [ -f "$file" ] || fail "the tarball holds no lib/systemd/system/muster-$unit.service; it is no release of Muster"
        put "/etc/systemd/system/muster-$unit.service" 0644 root:root "$(sed "s,/usr/bin/,$top/current/bin/," "$file")"
    done
}

use_tarball() {
    if [ "$(readlink $top/current || true)" != "$DIGEST" ]; then
        ln -sfn "$DIGEST" $top/current.new
        mv -T $top/current.new $top/current
        changed=yes
    fi
    for program in "$top"/current/bin/*; do
        link=/usr/local/bin/${program##*/}
        [ "$(readlink "$link" || true)" = "$program" ] || ln -sfn "$program" "$link"
    done
    units
    for old in "$top"/*; do # keeps the releases that run: tasks outlive the agent that started them
        case ${old##*/} in current | "$DIGEST") continue ;; esac
        release_in_use "$old" || rm -rf "$old"
    done
}

release_in_use() {
    for link in /proc/[0-9]*/exe; do
        case $(readlink "$link" 2>/dev/null) in "$1"/*) return 0 ;; esac
    done
    return 1
}

apt() {
    DEBIAN_FRONTEND=noninteractive apt-get -o Dpkg::Options::=--force-confold -o DPkg::Lock::Timeout=300 \
        "$@" >$state/apt.log 2>&1
}
apt_install() { apt install -y --allow-downgrades "$@"; }
apt_fault() { grep -E '^(E:|dpkg:)' $state/apt.log | tail -n 2 | tr '\n' ' '; }

use_packages() {
    [ "$(cat $state/packages 2>/dev/null || true)" != "$DIGEST" ] || return 0
    for file in $FILES; do
        set -- "$@" "$cache/$file"
    done
    mkdir -p $state
    # The lists of packages are fetched only where the dependencies need them.
    apt_install "$@" || { apt-get update >/dev/null 2>&1 && apt_install "$@"; } ||
        fail "apt-get install failed: $(apt_fault); see $state/apt.log"
    put $state/packages 0644 root:root "$DIGEST"
    for file in $FILES; do
        rm -f "$cache/$file"
    done
}

# install: makes the release the present one; running daemons keep theirs until they are restarted
action_install() {
    accounts
    "use_$KIND"
}

# configure: writes the settings of the roles
action_configure() {
    if [ "$MASTER" = yes ]; then
        put /etc/muster/master.yaml 0644 root:root "$MASTER_YAML" master
        # Its unit lets the master write to /var/lib/muster-checkpoints, and to no other folder of checkpoints.
        put $own_unit/checkpoints.conf 0644 root:root "[Service]
ReadWritePaths=-$(printf '%s' "$CHECKPOINTS" | sed 's/%/%%/g')" master
    fi
    if [ "$AGENT" = yes ]; then
        put /etc/default/muster-agent 0644 root:root "$AGENT_DEFAULTS" agent
    fi
}

# --- daemons ---------------------------------------------------------------------------------------

program_of() { if [ -e "$top/current/bin/muster-$1" ]; then echo "$top/current/bin/muster-$1"; else echo "/usr/bin/muster-$1"; fi; }
user_of() { if [ "$1" = master ]; then echo muster; else echo root; fi; }

# The process of a daemon; empty: it does not run
pid_of() {
    pid=
    if has_systemd; then
        pid=$(systemctl show -p MainPID --value "muster-$1.service" 2>/dev/null || true)
    elif [ -f "/run/muster-$1.pid" ]; then
        pid=$(cat "/run/muster-$1.pid")
    fi
    case $(running_exe "${pid:-0}") in */"muster-$1") echo "$pid" ;; esac
}

# as USER PROGRAM...: runs a program as the daemon's account, outside of this session
as() {
    user=$1
    shift
    setpriv --reuid "$user" --regid "$user" --init-groups --reset-env --no-new-privs -- "$@"
}

# The command line of a daemon without systemd: that of its unit.
start_plain() {
    mkdir -p $logs
    set -- "$1" "$(program_of "$1")"
    if [ "$1" = master ]; then
        umask 077
        set -- "$@" --config /etc/muster/master.yaml
    else
        umask 007
        # shellcheck disable=SC1091
        . /etc/default/muster-agent
        set -- "$@" --work-dir /var/lib/muster-agent --master "$MUSTER_MASTER"
        set -- "$@" --task-account "${MUSTER_TASK_ACCOUNT-muster-task}" --task-group "${MUSTER_TASK_GROUP-muster-checkpoints}"
        # shellcheck disable=SC2086
        set -- "$@" $MUSTER_AGENT_FLAGS
    fi
    daemon=$1
    shift
    setsid setpriv --reuid "$(user_of "$daemon")" --regid "$(user_of "$daemon")" --init-groups --reset-env --no-new-privs -- \
        "$@" >>"$logs/$daemon.log" 2>&1 </dev/null 9>&- &
    echo $! >"/run/muster-$daemon.pid"
    umask 022
}

stop_plain() {
    pid=$(pid_of "$1")
    [ -n "$pid" ] || return 0
    kill "$pid" 2>/dev/null || true # it may have ended by itself
    tries=0
    while [ -n "$(pid_of "$1")" ] && [ $tries -lt 300 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    [ -z "$(pid_of "$1")" ] || kill -KILL "$pid" 2>/dev/null || true
    rm -f "/run/muster-$1.pid"
}

# start: starts DAEMON, or restarts it if its settings have changed or it runs another release
action_start() {
    pid=$(pid_of "$DAEMON")
    if [ -n "$pid" ] && [ ! -e "/run/muster-$DAEMON.stale" ] &&
        [ "$(readlink "/proc/$pid/exe")" = "$(readlink -f "$(program_of "$DAEMON")")" ]; then # not "... (deleted)"
        return 0
    fi
    changed=yes
    if has_systemd; then
        systemctl daemon-reload
        systemctl enable --quiet "muster-$DAEMON.service"
        systemctl reset-failed "muster-$DAEMON.service" 2>/dev/null || true
        systemctl restart "muster-$DAEMON.service" || fail "systemctl restart muster-$DAEMON failed: $(log_of "$DAEMON" 3 | tr '\n' ' ')"
    else
        stop_plain "$DAEMON"
        start_plain "$DAEMON"
    fi
    rm -f "/run/muster-$DAEMON.stale"
}

# Stops the agent for a moment; its tasks go on.
stop_agent() { if has_systemd; then systemctl stop muster-agent.service 2>/dev/null || true; else stop_plain agent; fi; }

# log_of DAEMON LINES: the newest lines of its log
log_of() {
    if has_systemd; then
        journalctl --no-pager -q -o cat -u "muster-$1.service" -n "$2" 2>/dev/null || true
    else
        tail -n "$2" "$logs/$1.log" 2>/dev/null || true
    fi
}

# why_down DAEMON: "failed" also while systemd waits before it tries again
why_down() {
    case $(! has_systemd || systemctl show -p SubState --value "muster-$1.service" 2>/dev/null) in
        failed | auto-restart) echo failed ;;
        *) echo stopped ;;
    esac
}

# started_at PID: seconds since 1970; the time of /proc/PID is that of the kernel's first look at it
started_at() {
    awk -v tick="$(getconf CLK_TCK)" '$1 == "btime" { boot = $2 }
        FNR == 1 && NR > 1 { sub(/.*\) /, ""); print int(boot + $20 / tick) }' /proc/stat "/proc/$1/stat" 2>/dev/null || true
}

# state: prints about each daemon whether and since when it runs, and which release
action_state() {
    say installed "$(installed)"
    for daemon in $ROLES; do
        pid=$(pid_of "$daemon")
        if [ -n "$pid" ]; then
            say "$daemon" running
            say "$daemon.exe" "$(running_exe "$pid")"
            say "$daemon.since" "$(started_at "$pid")"
            say "$daemon.version" "$("/proc/$pid/exe" --version 2>/dev/null | sed 's/^[^ ]* //')"
        elif [ -e "$(program_of "$daemon")" ]; then
            say "$daemon" "$(why_down "$daemon")"
        else
            say "$daemon" absent
        fi
    done
    if has_systemd; then say units systemd; else say units none; fi
}

# log: the newest lines of DAEMON's log
action_log() { log_of "$DAEMON" 200; }

# secret: prints the file FILE, if it is there
action_secret() { [ ! -f "$FILE" ] || cat "$FILE"; }

# authority: makes the master's certificate for NAMES, unless it has it
action_authority() {
    for name in $NAMES; do
        set -- "$@" --host-name "$name"
    done
    made=$(as muster "$(program_of master)" --init --data-dir /var/lib/muster --port "$PORT" "$@")
    case $made in unchanged*) ;; *)
        changed=yes
        touch /run/muster-master.stale # before it prints, which ends this script if the connection is lost
        ;;
    esac
    say fingerprint "$(printf '%s\n' "$made" | sed -n 's/^fingerprint: *//p')"
}

# enrolled: prints whether the agent has a credential of the master at URL
action_enrolled() { if grep -qF "\"$URL\"" /var/lib/muster-agent/credential.json 2>/dev/null; then say enrolled yes; else say enrolled no; fi; }

# enroll: exchanges LINE for a credential of the agent AGENT_ID; a running agent holds its folder
action_enroll() {
    stop_agent
    printf '%s\n' "$LINE" | as root "$(program_of agent)" --work-dir /var/lib/muster-agent --id "$AGENT_ID" \
        --enroll-only --enroll-file - >/dev/null
    changed=yes
}

# --- end -------------------------------------------------------------------------------------------

# The supervisors of tasks, which outlive the agent; their ranks end with them.
kill_tasks() {
    if has_systemd; then # tasks are in the cgroup of the agent where there are no cgroups of version 2
        systemctl kill --signal=KILL muster-agent.service 2>/dev/null || true
        systemctl stop muster-tasks.service 2>/dev/null || true
    fi
    for exe in /proc/[0-9]*/exe; do
        case $(readlink "$exe" 2>/dev/null) in
        */bin/muster-supervisor | */bin/muster-supervisor\ *)
            pid=${exe%/exe}
            case $(readlink "$pid/cwd" 2>/dev/null) in
            /var/lib/muster-agent/*) kill -KILL "${pid#/proc/}" 2>/dev/null || true ;;
            esac
            ;;
        esac
    done
}

# stop: stops DAEMON; with the agent all tasks of the machine end
action_stop() {
    [ -z "$(pid_of "$DAEMON")" ] || changed=yes
    if has_systemd; then
        if systemctl cat "muster-$DAEMON.service" >/dev/null 2>&1; then
            systemctl disable --quiet --now "muster-$DAEMON.service"
        fi
    else
        stop_plain "$DAEMON"
    fi
    [ "$DAEMON" != agent ] || kill_tasks
}

# The packages of Muster that dpkg knows; apt-get does nothing at all if it does not know one of its arguments.
packages() {
    dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' 'muster-*' python3-muster 2>/dev/null | sed -n 's/^.[^n].* //p'
}

# purge: deletes programs, settings and data; not a folder of checkpoints that the hosts file names or a file server has
action_purge() {
    data="$top $state $cache $logs /etc/muster /var/lib/muster /var/lib/muster-agent"
    for folder in $data; do
        case $(readlink -m "$CHECKPOINTS")/ in
        "$(readlink -m "$folder")"/*) fail "the folder of checkpoints is inside $folder, which would be deleted; move it" ;;
        esac
    done
    [ -z "$(installed)" ] && [ ! -d /etc/muster ] || changed=yes
    if [ -f $state/packages ]; then
        # shellcheck disable=SC2046
        apt purge -y $(packages) || fail "apt-get purge failed: $(apt_fault); see $state/apt.log"
    fi
    rm -rf $own_unit /etc/systemd/system/muster-master.service /etc/systemd/system/muster-agent.service \
        /etc/systemd/system/muster-tasks.service
    ! has_systemd || systemctl daemon-reload
    for link in /usr/local/bin/muster*; do
        case $(readlink "$link" 2>/dev/null) in "$top"/*) rm -f "$link" ;; esac
    done
    # shellcheck disable=SC2086
    rm -rf $data /etc/default/muster-agent /etc/tmpfiles.d/muster-cluster.conf /run/muster-master.* /run/muster-agent.*
    [ "$KEEP_CHECKPOINTS" = yes ] || mountpoint -q /var/lib/muster-checkpoints || rm -rf /var/lib/muster-checkpoints
    for user in muster muster-task; do
        ! getent passwd $user >/dev/null || userdel $user >/dev/null 2>&1 || true
    done
}

# One command of "muster cluster" changes a machine at a time, also one that was cut off and still works.
changed=no
case $ACTION in
install | unpack | configure | authority | start | stop | purge | enroll)
    exec 9>/run/muster-cluster.lock
    flock -w 300 9 || fail "another \"muster cluster\" works on this machine; wait for its end"
    ;;
esac
"action_$ACTION" </dev/null
say changed $changed
