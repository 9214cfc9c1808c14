# Looks at a machine and prints what it finds as lines KEY=VALUE; facts.c judges them. It changes nothing, but ends a
# listener of network.sh. POSIX sh; runs as the user of the SSH session. PORT, set before, is the master's port, or empty.
LC_ALL=C
export LC_ALL
say() { printf '%s=%s\n' "$1" "$2"; }
has() { command -v "$1" >/dev/null 2>&1; }
first() { sed -n 's/^ *//; s/ *$//; 1p'; }
unit_pid() { pidof -s "$1" 2>/dev/null || true; }

say user "$(id -un)"
say arch "$(uname -m)"
# shellcheck disable=SC1091
say os "$(. /etc/os-release 2>/dev/null && printf '%s %s' "$ID" "${VERSION_ID:-}")"
say glibc "$(getconf GNU_LIBC_VERSION 2>/dev/null | sed 's/^glibc //')"
if [ "$(id -u)" -eq 0 ]; then
    say root yes
elif ! has sudo; then
    say root "sudo is not installed"
elif sudo -n true 2>/dev/null; then
    say root yes
else
    say root "$(sudo -n true 2>&1 | first)"
fi

for folder in /opt /var/cache /var/lib /run; do
    say "free_kb $folder" "$(df -Pk "$folder" 2>/dev/null | awk 'NR == 2 { print $4 }')"
done
say cores "$(getconf _NPROCESSORS_ONLN 2>/dev/null)"
if [ -d /run/systemd/system ] && has systemctl; then say systemd yes; else say systemd no; fi
say python "$(python3 -c 'import platform; print(platform.python_version())' 2>/dev/null)"
missing=
for program in bash tar xz flock setsid setpriv useradd groupadd sha256sum install; do
    has "$program" || PATH=$PATH:/usr/sbin:/sbin has "$program" || missing="$missing $program"
done
say missing "${missing# }"

# GPUs: those on the bus, those of the driver, and the driver.
bus=0
for device in /sys/bus/pci/devices/*; do
    case $(cat "$device/vendor" 2>/dev/null):$(cat "$device/class" 2>/dev/null) in
    0x10de:0x0300*|0x10de:0x0302*) bus=$((bus + 1)) ;;
    esac
done
say gpus_on_bus "$bus"
say gpus "$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')"
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | first)
[ -n "$driver" ] || driver=$(sed -n 's/.*Kernel Module.* \([0-9][0-9]*\.[0-9.]*\) .*/\1/p' /proc/driver/nvidia/version 2>/dev/null | first)
say driver "$driver"
if PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | grep -q 'libnccl\.so\.2'; then say nccl yes; else say nccl no; fi

say checkpoints_group "$(getent group muster-checkpoints | cut -d : -f 3)"
# A command that was interrupted leaves its listener, which looks like another program on the port.
if [ -n "$PORT" ]; then
    for listener in $(grep -ls "[m]uster-cluster-network:$PORT-" /proc/[0-9]*/cmdline | cut -d / -f 3); do
        kill "$listener" 2>/dev/null && sleep 1
    done
fi
if [ -n "$PORT" ] && has bash && timeout 5 bash -c "exec 3<>/dev/tcp/127.0.0.1/$PORT" 2>/dev/null; then
    say port_answers yes
fi
say master_pid "$(unit_pid muster-master)"
say agent_pid "$(unit_pid muster-agent)"
say checked yes
