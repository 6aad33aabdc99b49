import {expect, test} from 'vitest';
import {href, parseRoute, routeTo} from '../../src/route.js';

test('an address comes back, whatever the ids are', () => {
  for (const id of ['a', '/', '..', '#?&=%2f', '<script>', '\u202e', 'a b+c', '%']) {
    const session = {...routeTo('session', id, id, id), at: 3, base: 0, key: id, rewound: true};
    expect(parseRoute(href(session))).toEqual({...session, event: undefined, find: undefined});
    const list = {...routeTo('sessions', id, id), labels: [`${id}=1`, 'b=2'], oldestFirst: true};
    expect(parseRoute(href(list))).toMatchObject(list);
  }
});

test.each(['', '#', '#/', '#/session/a', '#/sessions', '#/other/x', '#/session/a/b/'])(
  '%j leads to the applications',
  hash => {
    expect(parseRoute(hash).view).toBe('applications');
  },
);

test('what is no number is left out', () => {
  expect(parseRoute('#/session/a/b/c?at=x&base=-1').at).toBeUndefined();
  expect(parseRoute('#/session/a/b/c?at=12').at).toBe(12);
});
