# The next holder's command: check.sh FILE next. It lists what it finds alive of the other one's: first, with nothing but its
# shell, those that are noted; then every process that has in its environment which session it ran under. A comet can pass
# between two looks, but its trail would grow.
: > $1
trail=$(wc -c < trail)
while read -r pid start; do
	s=
	{ read -r s < /proc/$pid/stat; } 2>/dev/null
	set -- "$1" "$2" ${s##*) }
	if [ "${22}" = $start ] && [ $3 != Z ]; then echo noted:$pid >> $1; fi
done < tree
grep -lzsx "FAIRLOCK_OWNER=$(cat owner)" /proc/[0-9]*/environ >> $1
if [ $2 = next ]; then
	sleep 0.5
	if [ $(wc -c < trail) != $trail ]; then echo trail >> $1; fi
fi
echo over >> $1
