# A command that does not want to end: all of it is deaf to what asks it to. Each process notes its number, and when it was
# started, so that a number that was given anew is not taken for it.
trap '' TERM HUP INT
note() { read -r s < /proc/$$/stat; set -- ${s##*) }; echo "$$ ${20}" >> tree; }
case $1 in
child)        # leads; the others are its own
	echo $FAIRLOCK_OWNER > owner
	note
	sh tree.sh stay &
	setsid sh tree.sh stay &
	setsid sh -c 'sh tree.sh stay & exit 0'    # a daemon: its parent is gone at once
	sh tree.sh chain 40 &
	sh tree.sh comet &
	wait; wait; wait ;;
stay)
	note; exec sleep 1000 ;;
chain)        # each in a session of its own, under the one before
	note
	if [ $2 = 0 ]; then exec sleep 1000; fi
	setsid sh tree.sh chain $(($2 - 1)) &
	wait ;;
comet)        # never the same process for long; it leaves a trail
	echo >> trail
	sleep 0.1
	setsid sh tree.sh comet & ;;
esac
