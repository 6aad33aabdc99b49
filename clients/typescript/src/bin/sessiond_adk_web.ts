#!/usr/bin/env node
/**
 * ADK's development server on sessiond: `sessiond-adk-web ADDRESS [AGENTS_DIR] [--host HOST] [--port PORT] [--no-ui]`.
 *
 * `adk web --session_service_uri` accepts the schemes of ADK's own services only. The server itself, `AdkApiServer` of
 * @google/adk-devtools, accepts any service. It is an optional peer, and the one beside the agents is used.
 */

import {createRequire} from 'node:module';
import {join, resolve} from 'node:path';
import {pathToFileURL} from 'node:url';
import {parseArgs} from 'node:util';
import {SessiondSessionService} from 'sessiond-adk';

const USAGE =
  'Usage: sessiond-adk-web ADDRESS [AGENTS_DIR] [--host HOST] [--port PORT] [--no-ui]';
const DEVTOOLS = '@google/adk-devtools';

/** The part of ADK's server that is used here. */
interface DevelopmentServer {
  start(): Promise<void>;
  stop(): Promise<void>;
}

interface Devtools {
  AdkApiServer: new (options: Record<string, unknown>) => DevelopmentServer;
}

/** ADK's tools from the folder of the agents, the working directory, or beside this package. */
async function importDevtools(agentsDir: string): Promise<Devtools> {
  const places = [join(agentsDir, '_'), join(process.cwd(), '_')];
  for (const place of [...places, import.meta.url]) {
    try {
      const file = createRequire(place).resolve(DEVTOOLS);
      return (await import(pathToFileURL(file).href)) as Devtools;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') {
        throw error;
      }
    }
  }
  throw new Error(`${DEVTOOLS} is missing. Run npm install ${DEVTOOLS}.`);
}

async function main(): Promise<number> {
  const {values, positionals} = parseArgs({
    allowPositionals: true,
    options: {
      host: {type: 'string', default: 'localhost'},
      port: {type: 'string', default: '8000'},
      'no-ui': {type: 'boolean', default: false},
    },
  });
  const [address, directory = '.', ...others] = positionals;
  if (!address || others.length > 0 || !/^[0-9]+$/.test(values.port)) {
    console.error(USAGE);
    return 2;
  }
  const agentsDir = resolve(directory);
  const sessionService = new SessiondSessionService(address);
  const {AdkApiServer} = await importDevtools(agentsDir);
  const server = new AdkApiServer({
    agentsDir,
    host: values.host,
    port: Number(values.port),
    serveDebugUI: !values['no-ui'],
    sessionService,
  });
  const stopped = new Promise(done => {
    process.once('SIGINT', done);
    process.once('SIGTERM', done);
  });
  await server.start();
  await stopped;
  await server.stop();
  await sessionService.close();
  return 0;
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
