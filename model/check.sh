#!/bin/sh
# Checks fairlock.pml in every configuration below, and that every mutant fails. Prints a Markdown table; exits with 0
# only if all is as it must be. Needs a C compiler; spin is looked for in $SPIN and PATH, and otherwise comes from
# Debian's archive. JOBS says how many searches run at a time (2), each within MEM MB (3800).
#
#	check.sh          all
#	check.sh NAME     one (or NAME, KIND), and leaves what spin and pan wrote in a directory that it names; of an error, the steps
set -u
here=$(cd "$(dirname "$0")" && pwd)
JOBS=${JOBS:-2} MEM=${MEM:-3800} CC=${CC:-cc}

die() { echo "model: $*" >&2; exit 2; }

# find_spin sets spin. As root it installs Debian's package; for others it unpacks that package into the user's cache.
find_spin() {
	spin=${SPIN:-$(command -v spin)} && [ -n "$spin" ] && return
	cache=${XDG_CACHE_HOME:-$HOME/.cache}/fairlock/spin
	spin=$cache/usr/bin/spin
	[ -x "$spin" ] && return
	command -v apt-get >/dev/null || die "no spin in PATH, and no apt-get to fetch it with; install spin 6.5 or set SPIN"
	if [ "$(id -u)" = 0 ]; then
		apt-get install -y --no-install-recommends spin >&2 || die "apt-get install spin failed (is apt-get update due?)"
		spin=$(command -v spin) || die "apt-get installed no spin"
		return
	fi
	mkdir -p "$cache" && (cd "$cache" && apt-get download spin >&2 && dpkg -x spin_*.deb . && rm -f spin_*.deb) ||
		die "could not fetch spin (is apt-get update due?)"
	[ -x "$spin" ] || die "Debian's package has no /usr/bin/spin"
}

# The checks, longest first: name | kind | flags of the model | what must happen (events) or, of a mutant, how it must fail.
#
# safe    no assertion fails in any state
# fair    nor is there a run, with weak fairness of processes, that does not end in quiet (the ltl formula)
# ends    nor a state in which nothing can be done and which is not quiet
# loops   nor a cycle; with ends the same as fair, for models that are too big for it
# mutant, unfair, unends, unloops: the same, and must fail
checks() {
	usual='grant, reaper ends a session, reaper clears a ticket, tombstone, reaper buries a number, ticket meets tombstone, ticket too late, cancelled, lost while held, settled out of order, crash'
	runs='passed inside the process, run of two arrivals, given back by void with its run, void by what the lock document shows'
	cat <<-END
		mutex 2x2 | safe | -DA0=2 -DA1=2 -DSESSIONS=1 | $usual, $runs
		live: batches | loops | -DC=2 -DA0=1 -DA1=1 -DLAPSES=1 -DSESSIONS=1 -DCRASH=0 | garbage ticket deleted, ticket deleted before last settle, tombstone under a ticket
		lost replies | safe | -DA0=2 -DA1=1 -DLOST=1 -DSTRAY=1 -DSESSIONS=1 | $usual, $runs, lost reply repeated, slot overwritten, arrival given up
		live: two arrivals | loops | -DA0=2 -DA1=1 -DLAPSES=1 -DSESSIONS=1 | $usual, $runs, garbage ticket deleted, late ticket committed
		live: batches | ends | -DC=2 -DA0=1 -DA1=1 -DLAPSES=1 -DSESSIONS=1 -DCRASH=0 | garbage ticket deleted, ticket deleted before last settle, tombstone under a ticket
		all documents | safe | -DA0=2 -DA1=1 -DFULL=1 -DSTALE=1 -DSESSIONS=1 | $usual, $runs, late ticket committed, garbage ticket deleted
		live: next session | fair | -DA0=1 -DA1=1 -DLAPSES=2 | $usual, grant under second session, garbage ticket deleted, late ticket committed
		live: two arrivals | ends | -DA0=2 -DA1=1 -DLAPSES=1 -DSESSIONS=1 | $usual, $runs, garbage ticket deleted, late ticket committed
		live: lost replies | loops | -DLOST=1 -DSTRAY=1 -DA0=1 -DA1=1 -DLAPSES=1 -DSESSIONS=1 | $usual, lost reply repeated, arrival given up, garbage ticket deleted
		semaphore, batches | safe | -DPERMITS=2 -DC=2 -DA0=1 -DA1=1 -DSESSIONS=1 | $usual, units held by two, trimmed, ticket deleted before last settle, tombstone under a ticket
		mutex, batches | safe | -DC=2 -DA0=1 -DA1=1 -DSESSIONS=1 | $usual, passed inside the process, trimmed, ticket deleted before last settle, tombstone under a ticket
		mutex, next session | safe | -DA0=2 -DA1=1 | $usual, $runs, grant under second session, reply after session's end
		mutex, three | safe | -DP=3 -DA0=1 -DA1=1 -DSESSIONS=1 | $usual
		readers, writer | safe | -DP=3 -DPERMITS=2 -DW0=2 -DA0=1 -DA1=1 -DSESSIONS=1 | $usual, units held by two
		weights | safe | -DPERMITS=2 -DW1=2 -DA0=2 -DA1=1 | $usual, passed inside the process, run of two arrivals, void by what the lock document shows, grant under second session
		try | safe | -DTRY=2 -DLOST=1 -DA0=1 -DA1=2 -DSESSIONS=1 | $usual, try admitted, try refused, lost reply repeated, slot overwritten
		live: lost replies | ends | -DLOST=1 -DSTRAY=1 -DA0=1 -DA1=1 -DLAPSES=1 -DSESSIONS=1 | $usual, lost reply repeated, arrival given up, garbage ticket deleted
		no tombstone | mutant | -DA0=1 -DA1=1 -DFULL=1 -DHOLDERS -DBUG_NOTOMB | use<=1
		trust by grace alone | mutant | -DA0=1 -DA1=1 -DFULL=1 -DHOLDERS -DBUG_GRACE | use<=1
		reaper acts on absence | mutant | -DA0=1 -DA1=1 -DFULL=1 -DHOLDERS -DBUG_ABSENT | use<=1
		renewal is a no-op | mutant | -DA0=1 -DA1=1 -DFULL=1 -DHOLDERS -DBUG_NOOP | use<=1
		late ticket believed | mutant | -DA0=1 -DA1=1 -DFULL=1 -DHOLDERS -DBUG_LATEACK | use<=1
		mutex looks at frontier | mutant | -DA0=2 -DA1=1 -DSESSIONS=1 -DHOLDERS -DBUG_FRONT | use<=1
		buried numbers are capacity | mutant | -DPERMITS=2 -DW1=2 -DA0=2 -DA1=1 -DSESSIONS=1 -DBUG_BURIED | use<=2
		given numbers are capacity | mutant | -DPERMITS=2 -DC=2 -DA0=1 -DA1=1 -DSESSIONS=1 -DBUG_GIVEN | use<=2
		frontier counts the cancelled | mutant | -DP=3 -DPERMITS=2 -DW0=2 -DA0=1 -DA1=1 -DSESSIONS=1 -DBUG_COUNT | use<=2
		slot believed without mark | mutant | -DLOST=1 -DA0=1 -DA1=1 -DSESSIONS=1 -DBUG_MARK | root\[f\]==0
		any settled run is the head | mutant | -DA0=1 -DA1=1 -DSESSIONS=1 -DBUG_OPENS | low>=f
		frontier ignores the cancelled | unfair | -DA0=1 -DA1=1 -DLAPSES=1 -DSESSIONS=1 -DBUG_STUCK | acceptance cycle
		frontier ignores the cancelled | unends | -DA0=1 -DA1=1 -DLAPSES=1 -DSESSIONS=1 -DBUG_STUCK | low==issued
		orphans are left | unfair | -DA0=1 -DA1=1 -DLAPSES=1 -DSESSIONS=1 -DBUG_NOBURY | acceptance cycle
		orphans are left | unends | -DA0=1 -DA1=1 -DLAPSES=1 -DSESSIONS=1 -DBUG_NOBURY | low==issued
		leases lapse for ever | unloops | -DA0=1 -DA1=1 -DSESSIONS=1 | non-progress cycle
	END
}

# check runs one line of checks in the directory $2 and leaves a row of the table there, and fail if it is not as it must be.
check() {
	IFS='|' read -r name kind flags expect <<-END
		$1
	END
	name=$(trim "$name") kind=$(trim "$kind") flags=$(trim "$flags") expect=$(trim "$expect")
	dir=$2
	mkdir -p "$dir" && cd "$dir" || exit 2
	cflags="-w -DNOREDUCE -DMEMLIM=$MEM" args="-m1000000 -w25"
	case $kind in
	safe | mutant) cflags="$cflags -DSAFETY -DNOFAIR" ;;
	*fair) cflags="$cflags" flags="$flags -DLIVE -DFULL=1" args="$args -a -f" ;;
	*ends) cflags="$cflags -DSAFETY -DNOFAIR" flags="$flags -DENDS -DFULL=1" ;;
	*loops) cflags="$cflags -DNP -DNOFAIR" flags="$flags -DFULL=1" args="$args -l" ;;
	esac
	case $kind in
	mutant | un*) cflags="-O0 $cflags" ;;
	*) cflags="-O2 -DNOBOUNDCHECK $cflags" ;;
	esac
	why=
	if ! "$spin" -a $flags "$here/fairlock.pml" >spin.out 2>&1 || grep -q '^spin:.*[Ee]rror' spin.out || ! "$CC" $cflags -o pan pan.c >cc.out 2>&1; then
		why='does not compile'
	fi
	[ -n "$why" ] || ./pan $args >pan.out 2>&1 || why="pan exited with $?"
	states=$(awk '/states, stored/ {print $1}' pan.out) depth=$(awk '/depth reached/ {sub(",", "", $6); print $6}' pan.out)
	errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.out) mb=$(awk '/total actual memory usage/ {printf "%d", $1}' pan.out)
	secs=$(awk '/elapsed time/ {print $4}' pan.out)
	said=$(grep -m1 -E '^pan:[0-9]*: ' pan.out | sed 's/^pan:[0-9]*: //; s/ (at depth.*//; s/assertion violated *//; s/|/¦/g')
	if [ -z "$why" ]; then
		case $kind in
		safe | fair | ends | loops)
			# A search that was cut short says so in one of these ways.
			cut='not completed|max search depth|memlim|out of memory|hash table full|too small|error:'
			if [ "${errors:-0}" != 0 ]; then
				why="fails: $said"
			elif [ -z "$states" ] || grep -qiE "$cut" pan.out; then
				why="cut short: $(grep -m1 -iE "$cut" pan.out)"
			else
				old=$IFS IFS=,
				for e in $expect; do
					e=$(trim "$e")
					grep -qE "^event [1-9][0-9]* $e\$" pan.out || why="$why never: $e;"
				done
				IFS=$old
			fi
			good='no error'
			;;
		*)
			if [ "${errors:-0}" = 0 ]; then
				why='passes'
			elif ! grep -qE "^pan:[0-9]*: .*$expect" pan.out; then
				why="fails otherwise: $said"
			fi
			good="fails: \`$said\`"
			;;
		esac
	fi
	echo "| $name | $kind | \`$flags\` | ${states:-} | ${depth:-} | ${secs:-0} s | ${mb:-} MB | ${why:+**}${why:-$good}${why:+**} |" >row
	[ -z "$why" ] || echo "$name: $why" >fail
	echo "$name, $kind: ${why:-$good}" >&2
}

trim() { printf "%s\n" "$1" | sed "s/^[ \t]*//; s/[ \t]*\$//"; }

find_spin
command -v "$CC" >/dev/null || die "no C compiler $CC; set CC"
if [ "${1:-}" = -check ]; then # from xargs below
	check "$2" "$3"
	exit 0
fi
tmp=$(mktemp -d "${TMPDIR:-/tmp}/fairlock-model.XXXXXX") || exit 2
if [ $# -gt 0 ]; then
	line=$(checks | grep -m1 "^$(echo "$1" | sed 's/, \([a-z]*\)$/ | \1/') |") || line=$(checks | grep -m1 "^$1 |") ||
		die "no check is called $1: $(checks | sed 's/ |.*//' | paste -sd';')"
	check "$line" "$tmp"
	cat "$tmp/row"
	grep '^event [1-9]' "$tmp/pan.out"
	[ -z "$(ls "$tmp"/*.trail 2>/dev/null)" ] || (cd "$tmp" && ./pan -r *.trail | grep -E '^    |START OF CYCLE|violated')
	echo "left in $tmp"
	exit "$([ -e "$tmp/fail" ] && echo 1 || echo 0)"
fi
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
began=$(date +%s)
checks | awk -v d="$tmp" '{printf "%s%c%s/%02d%c", $0, 0, d, NR, 0}' |
	SPIN=$spin JOBS=$JOBS MEM=$MEM CC=$CC xargs -0 -n 2 -P "$JOBS" sh "$here/check.sh" -check
echo '| check | kind | model | states | depth | time | memory | result |'
echo '| --- | --- | --- | ---: | ---: | ---: | ---: | --- |'
cat "$tmp"/*/row
echo
echo "$("$spin" -V), $JOBS at a time, $(($(date +%s) - began)) s in all"
rows=$(cat "$tmp"/*/row | wc -l)
[ "$rows" = "$(checks | wc -l)" ] || die "some checks did not run"
[ -z "$(cat "$tmp"/*/fail 2>/dev/null)" ] || die "not as it must be:
$(cat "$tmp"/*/fail)"
