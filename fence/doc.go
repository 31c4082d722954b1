// Package fence makes writes to your own documents refuse an older holder of a lock.
//
// No lock service can keep a process from being paused after it has checked that it holds a lock, and from writing when the lock is long
// somebody else's. The resource itself must refuse that write, and can: every holder has a token that is larger than those of
// all holders before it ([github.com/fairlock/fairlock.Lock.Token]). A protected document keeps the largest token that has
// written to it in a field of its own, and each write goes through only if its token is not smaller:
//
//	f, err := fence.New(lock.Token())
//	...
//	_, err = f.UpdateOne(ctx, invoices, bson.D{{"_id", 7}}, bson.D{{"$set", bson.D{{"paid", true}}}})
//	if errors.Is(err, fence.ErrStale) {
//		// A later holder has written. This process has lost the lock, whether it knows or not.
//	}
//
// # What it guarantees
//
// With every write to a document made through a Fence of the same lock: once a write with a token is acknowledged, no write with a
// smaller token changes that document, ever. Condition and change are one atomic operation on the server.
//
// # What it does not
//
//   - It protects documents one by one. A stale holder can still write to a document that the later holder has not touched yet; when
//     that matters, begin a hold by touching every document it is about, or write in a transaction that touches one common document.
//   - Reads are not fenced: what a stale holder reads may be new.
//   - A deleted document has forgotten its token, and so has one that is replaced by code that does not know the field.
//   - One field belongs to one lock. Documents that two locks protect need two fields ([Field]).
//
// # Values
//
// What a bson.D or bson.M holds is marshalled by the collection, with the options of its client. Updates and replacements of other types, and updates
// that have both $max and $set, are marshalled here, with the driver's defaults.
//
// # Transactions
//
// The calls join the transaction of the context they are given. A stale write is [ErrStale] there as well, and the transaction should be
// aborted: returned from the callback of WithTransaction it is.
package fence
