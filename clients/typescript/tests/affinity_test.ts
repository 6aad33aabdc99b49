/** Calls and watches carry a hint, by which load balancers can keep those of a user on one replica. */

import {Metadata} from '@grpc/grpc-js';
import {expect, test} from 'vitest';
import type {SessiondSessionService} from '../src/index.js';
import {MetadataServer} from './support/metadata_server.js';
import {connect} from './support/server.js';

const ofUser = '5bdd9aa445874270';
const ofApp = 'ffe9aaeaa2a2d504';

async function callAndWatch(service: SessiondSessionService): Promise<void> {
  await service.listSessions({appName: 'a', userId: 'u'});
  const session = {appName: 'a', userId: 'u', sessionId: 's'};
  for (const scope of [session, {appName: 'a'}]) {
    for await (const item of service.watch(scope)) {
      void item;
    }
  }
}

test('calls and watches carry the hint, and that of the caller wins', async () => {
  await using server = await MetadataServer.start();
  await using service = connect(server.address);
  await callAndWatch(service);
  expect(server.values('sessiond-affinity')).toEqual([ofUser, ofUser, ofApp]);

  const metadata = new Metadata();
  metadata.set('sessiond-affinity', 'mine');
  await using other = connect(server.address, {metadata});
  await callAndWatch(other);
  expect(server.values('sessiond-affinity').slice(3)).toEqual(
    Array(3).fill('mine'),
  );
});
