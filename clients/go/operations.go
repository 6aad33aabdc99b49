package sessiond

import (
	"fmt"
	"math"

	pb "github.com/sessiond/sessiond/clients/go/sessiondv1"
)

// Operation is a change that the server evaluates inside the commit, so that no concurrent update is lost. Keys carry
// their prefix.
type Operation interface {
	// key returns the key with its prefix.
	key() string
	// write adds the operation to a delta, and its key to mended if its value was mended.
	write(delta *pb.StateDelta, mended *mendedKeys) error
}

// Increment adds By to a number. A missing key counts as 0.
type Increment struct {
	Key string
	By  int64
}

// IncrementFloat adds By to a number and makes it a double. A missing key counts as 0.
type IncrementFloat struct {
	Key string
	By  float64
}

// ListAppend appends Values to a list and keeps its newest MaxLength items (0: all). A missing key counts as an empty list.
type ListAppend struct {
	Key       string
	Values    []any
	MaxLength int
}

// SetIfAbsent sets Value if the key has no value. null is a value.
type SetIfAbsent struct {
	Key   string
	Value any
}

// MergePatch merges Patch into an object (RFC 7396): nil removes a member. A missing key counts as an empty object.
type MergePatch struct {
	Key   string
	Patch map[string]any
}

// Remove removes the key. A missing key is no error. Setting a key to nil stores a null instead.
type Remove struct {
	Key string
}

func (o Increment) key() string      { return o.Key }
func (o IncrementFloat) key() string { return o.Key }
func (o ListAppend) key() string     { return o.Key }
func (o SetIfAbsent) key() string    { return o.Key }
func (o MergePatch) key() string     { return o.Key }
func (o Remove) key() string         { return o.Key }

func (o Increment) write(delta *pb.StateDelta, _ *mendedKeys) error {
	amount := &pb.Increment{Amount: &pb.Increment_By{By: o.By}}
	add(delta, &pb.StateOperation{Key: o.Key, Operation: &pb.StateOperation_Increment{Increment: amount}})
	return nil
}

func (o IncrementFloat) write(delta *pb.StateDelta, _ *mendedKeys) error {
	// Refuses NaN and infinities, with the key in the message.
	if _, err := encodeValue(o.Key, o.By, nil); err != nil {
		return err
	}
	amount := &pb.Increment{Amount: &pb.Increment_ByDouble{ByDouble: o.By}}
	add(delta, &pb.StateOperation{Key: o.Key, Operation: &pb.StateOperation_Increment{Increment: amount}})
	return nil
}

func (o ListAppend) write(delta *pb.StateDelta, mended *mendedKeys) error {
	if o.MaxLength < 0 || o.MaxLength > math.MaxInt32 {
		return fmt.Errorf("sessiond: the length %d of the list %q must be in 0..%d", o.MaxLength, o.Key, math.MaxInt32)
	}
	values := o.Values
	if values == nil {
		values = []any{}
	}
	text, err := encodeValue(o.Key, values, mended)
	if err != nil {
		return err
	}
	list := &pb.ListAppend{ValuesForm: &pb.ListAppend_ValuesJson{ValuesJson: text}, MaxLength: int32(o.MaxLength)}
	add(delta, &pb.StateOperation{Key: o.Key, Operation: &pb.StateOperation_ListAppend{ListAppend: list}})
	return nil
}

func (o SetIfAbsent) write(delta *pb.StateDelta, mended *mendedKeys) error {
	text, err := encodeValue(o.Key, o.Value, mended)
	if err != nil {
		return err
	}
	set := &pb.SetIfAbsent{ValueForm: &pb.SetIfAbsent_ValueJson{ValueJson: text}}
	add(delta, &pb.StateOperation{Key: o.Key, Operation: &pb.StateOperation_SetIfAbsent{SetIfAbsent: set}})
	return nil
}

func (o MergePatch) write(delta *pb.StateDelta, mended *mendedKeys) error {
	patch := o.Patch
	if patch == nil {
		patch = map[string]any{}
	}
	text, err := encodeValue(o.Key, patch, mended)
	if err != nil {
		return err
	}
	merge := &pb.MergePatch{PatchForm: &pb.MergePatch_PatchJson{PatchJson: text}}
	add(delta, &pb.StateOperation{Key: o.Key, Operation: &pb.StateOperation_MergePatch{MergePatch: merge}})
	return nil
}

func (o Remove) write(delta *pb.StateDelta, _ *mendedKeys) error {
	delta.Remove = append(delta.Remove, o.Key)
	return nil
}

func add(delta *pb.StateDelta, operation *pb.StateOperation) {
	delta.Operations = append(delta.Operations, operation)
}

// Delta is a set of changes that are applied together: Set first, then every [Remove], then the other operations in their
// order. Keys carry their prefix.
type Delta struct {
	Set        map[string]any
	Operations []Operation
}

func (d Delta) encode(mended *mendedKeys) (*pb.StateDelta, error) {
	texts, err := encodeValues(d.Set, true, mended)
	if err != nil {
		return nil, err
	}
	return encodeDelta(texts, d.Operations, mended)
}

func encodeDelta(texts map[string]string, operations []Operation, mended *mendedKeys) (*pb.StateDelta, error) {
	delta := &pb.StateDelta{}
	if len(texts) > 0 {
		delta.SetForm = &pb.StateDelta_SetJson{SetJson: joinObject(texts)}
	}
	for at, operation := range operations {
		if operation == nil {
			return nil, fmt.Errorf("sessiond: operation %d is nil", at)
		}
		if err := operation.write(delta, mended); err != nil {
			return nil, err
		}
	}
	return delta, nil
}
